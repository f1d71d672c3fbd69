package webui

import (
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// withoutSecrets returns a store's URL that can be shown and used: without the password, without a user that has no
// password (which may be a password in the wrong place), and without parameters that may be secret.
func withoutSecrets(at store.Location) string {
	masked, err := store.ParseLocation(at.String())
	if err != nil {
		return ""
	}
	if masked.User != nil && at.LoneUser() == "" && at.User.Username() != "" {
		masked.User = nil
		plain := dropMasked(masked)
		head, tail, _ := strings.Cut(plain, "//")
		return head + "//" + url.User(at.User.Username()).String() + "@" + tail
	}
	masked.User = nil
	return dropMasked(masked)
}

// dropMasked writes the location without the parameters whose names or values are masked.
func dropMasked(at store.Location) string {
	const mask = "xxxxx"
	for name, values := range at.Query {
		for _, v := range values {
			if v == mask || name == mask {
				at.Query.Del(name)
			}
		}
	}
	return at.String()
}
