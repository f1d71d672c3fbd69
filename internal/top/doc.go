// Package top shows the queues of a store live, in a terminal or as plain lines.
//
// A model has what is known and how it is to be shown. It does no I/O: events go in, and it draws on a canvas. The
// screen is the edge to the terminal, and plain that to anything else.
package top
