package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Curator's workers are a program in Java.
//
//go:embed curator/Worker.java
var curatorSource []byte

// Where Debian has Curator. Its jars name the others that they need, but for a logger.
const debianJars = "/usr/share/java"

var curatorJars = []string{
	"curator-recipes.jar", "curator-framework.jar", "curator-client.jar", "guava.jar", "zookeeper.jar", "slf4j-nop.jar",
}

// hireCurator starts a worker that locks by Curator.
func hireCurator(ctx context.Context, a assignment) (*hand, error) {
	classes, err := curatorClasses()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp", classes, "Worker")
	return hireProgram(ctx, cmd, inJSON, a)
}

// curatorClasses compiles Curator's worker, once per machine, and returns the class path that it runs with.
var curatorClasses = sync.OnceValues(func() (string, error) {
	paths := make([]string, len(curatorJars))
	for i, jar := range curatorJars {
		paths[i] = filepath.Join(debianJars, jar)
		if _, err := os.Stat(paths[i]); err != nil {
			return "", fmt.Errorf("%w: apt-get install libcurator-recipes-java default-jdk-headless", err)
		}
	}
	jars := strings.Join(paths, string(filepath.ListSeparator))
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "holdfast", fmt.Sprintf("curator-%x", sha256.Sum256(curatorSource)))
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		err = compile(dir, jars)
		if err != nil {
			return "", err
		}
	}
	return dir + string(filepath.ListSeparator) + jars, nil
})

// compile compiles Curator's worker into a folder, which is there only when that is done.
func compile(dir, jars string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	draft, err := os.MkdirTemp(filepath.Dir(dir), "draft-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft) //nolint:errcheck // it is in the cache
	source := filepath.Join(draft, "Worker.java")
	if err := os.WriteFile(source, curatorSource, 0o600); err != nil {
		return err
	}
	if said, err := exec.Command("javac", "-d", draft, "-cp", jars, source).CombinedOutput(); err != nil {
		return fmt.Errorf("javac: %w: %s", err, said)
	}
	if err := os.Rename(draft, dir); err != nil && !errors.Is(err, os.ErrExist) { // another may have been faster
		return err
	}
	return nil
}
