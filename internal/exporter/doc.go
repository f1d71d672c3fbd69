// Package exporter reports what is in a store as metrics: how many locks are held, how many claims wait and for how
// long, by the prefix of their names. It serves them as text for Prometheus, and pushes them to OpenTelemetry.
//
// It sees the store from outside, all clients at once. Package otelholdfast reports the other side: what one client
// experiences.
package exporter
