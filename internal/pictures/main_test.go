package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// TestPictures: the files in docs are what this command draws, and are well-formed.
func TestPictures(t *testing.T) {
	for name, svg := range pictures() {
		file, err := os.ReadFile("../../docs/img/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if string(file) != svg {
			t.Errorf("docs/img/%s is old: go run ./internal/pictures docs/img", name)
		}
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}
