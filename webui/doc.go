// Package webui serves a page on which operators watch the locks of a store: which names are held and by which holder,
// how long they have been held and how long they last, which claims wait and since when, which claim blocks which, and
// deadlocks. The command holdfast ui serves the same page.
//
// A [Handler] is an [http.Handler], to be mounted in a program of your own:
//
//	page, err := webui.New(locks, webui.WithBasePath("/locks/"), webui.WithHosts("ops.example.com"))
//	if err != nil {
//		return err
//	}
//	defer page.Close()
//	mux.Handle("/locks/", requireOperator(page))
//
// # Cost
//
// All viewers share one [holdfast.Client.Watch]. It starts with the first viewer and stops shortly after the last one
// has left: a page that is not open in any browser costs nothing. A tab in the background counts as closed. Times
// left are not part of the watch, since every renewal changes them. They are read for the rows that a viewer has on
// the screen, every two seconds, once for all viewers.
//
// The page, its style and its scripts are embedded. It sends requests to its own handler only.
//
// # What the timeline can tell
//
// Events are derived from what the watch reports, and are kept in memory while a viewer is connected. A watch shows
// that a claim is gone, and not why. An event says "released" only if the claim cannot have expired, "expired" only if
// it was read shortly before it would have expired and had not been renewed, "broken" if this page broke it, and
// "ended" otherwise. A release and a break by another client look the same, and the event says so. What begins and ends
// between two reports is not seen.
//
// # Security
//
// The page shows names, labels, hosts and process ids, and with [WithBreak] it ends claims. The handler protects itself
// against other web pages that the operator's browser has open:
//
//   - A request is served only if its Host is an IP address, localhost or a name that [WithHosts] allows, so that a
//     page elsewhere cannot reach the handler by a DNS name of its own (DNS rebinding).
//   - A request that another origin sends is refused, by its headers Origin and Sec-Fetch-Site. Requests that change
//     something also need a header that a form cannot send.
//   - The page cannot be framed. Its content security policy allows nothing but its own files, and no inline script.
//     With Trusted Types the browser enforces that names and labels are inserted as text.
//
// The handler does not know users. Protect it by what your program uses for that, or by [WithToken]: a secret that the
// page sends in the header Authorization. The page receives it in the fragment of a URL, which browsers do not send to
// servers, removes it from the address at once, and keeps it until its tab is closed.
package webui
