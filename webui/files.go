package webui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"sync"
	"time"
)

//go:embed page
var pages embed.FS

// types are the content types of the files. What the system knows of them may be wrong.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// A file is an embedded file.
type file struct {
	content []byte
	tag     string // changes with the content
}

// files are all embedded files, by name.
var files = sync.OnceValue(func() map[string]file {
	all := map[string]file{}
	entries, _ := fs.ReadDir(pages, "page") // they are embedded: it cannot fail
	for _, e := range entries {
		content, _ := pages.ReadFile("page/" + e.Name())
		sum := sha256.Sum256(content)
		all[e.Name()] = file{content, `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return all
})

// serveFile serves an embedded file. Browsers keep it, and check each time whether it is still the same.
func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	f, ok := files()[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", types[path.Ext(name)])
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Etag", f.tag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
}
