//go:build !unix

package main

import "syscall"

func attachedAttributes() *syscall.SysProcAttr { return nil }
