package webui_test

import (
	"context"
	"log"
	"net/http"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/webui"
)

// A program serves the page below a path of its own server, for operators only.
func Example() {
	locks, err := holdfast.Open(context.Background(), "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	page, err := webui.New(locks, webui.WithBasePath("/locks/"), webui.WithHosts("ops.example.com"))
	if err != nil {
		log.Fatal(err)
	}
	requireOperator := func(next http.Handler) http.Handler { return next } // what your program uses

	mux := http.NewServeMux()
	mux.Handle("/locks/", requireOperator(page))
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux}
	server.RegisterOnShutdown(page.Close) // viewers stay connected: without it, Shutdown would wait for them
	log.Fatal(server.ListenAndServe())
}
