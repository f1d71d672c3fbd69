package webui

import (
	"maps"
	"net/url"
	"slices"
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
	hasUser := masked.User != nil && at.LoneUser() == "" && at.User.Username() != ""
	masked.User = nil
	const mask = "xxxxx"
	maps.DeleteFunc(masked.Query, func(name string, values []string) bool {
		return name == mask || slices.Contains(values, mask)
	})
	if !hasUser {
		return masked.String()
	}
	head, tail, _ := strings.Cut(masked.String(), "//")
	return head + "//" + url.User(at.User.Username()).String() + "@" + tail
}
