// Command pictures draws the pictures of the docs that explain the queue and the fence. Run it from the root of the
// repository:
//
//	go run ./internal/pictures docs/img
//
// The colours follow the reader's light or dark scheme. A test fails if the files differ from what it draws.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: pictures DIRECTORY")
	}
	for name, svg := range pictures() {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(svg), 0o644); err != nil {
			log.Fatal(err)
		}
		fmt.Println(name)
	}
}

// pictures returns all pictures by file name.
func pictures() map[string]string {
	return map[string]string{"queue.svg": queue(), "fence.svg": fence()}
}
