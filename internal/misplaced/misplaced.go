// Package misplaced generates URLs of stores that contain a secret, where it belongs or where it does not, for tests
// that search for the secret in what is printed.
package misplaced

import (
	"iter"
	"slices"
	"strings"
)

// A URL is a store's URL with a secret in it.
type URL struct {
	Text   string
	pieces []string // of the secret, in lower case
}

// Of returns the URL of a text in which $ stands for the secret, which is two words with a separator between them.
func Of(text, separator string) URL { return of(text, "w7kfirst", separator, "z9qsecond") }

func of(text, first, separator, second string) URL {
	return URL{strings.ReplaceAll(text, "$", first+separator+second), []string{first, second}}
}

// In reports whether a piece of the secret can be recognised in what was printed.
func (u URL) In(printed string) bool {
	printed = strings.ToLower(printed)
	return slices.ContainsFunc(u.pieces, func(piece string) bool { return strings.Contains(printed, piece) })
}

// separators stand between the two words of a secret. Most of them end a part of a URL.
var separators = []string{
	"", "/", "?", "#", "@", ":", "&", "=", "%", ",", ";", "+", " ", "\\", "[", "]", "\"", "\n", "//", "://", "?a=",
	"&a=", "/?",
	"%2F", "%3F", "%40", "%zz", "%00",
}

// nobody is an address where no server listens.
const nobody = "127.0.0.1:1"

// places are URLs in which $ is the secret. SCHEME and HOST are those of the store.
var places = []string{
	// Where a password belongs, and what becomes of that with a slash too few or too many.
	"SCHEME://:$@HOST", "SCHEME://user:$@HOST", "SCHEME://user:$@HOST/0", "SCHEME://user:$@HOST?prefix=p",
	"SCHEME://user:$@", "SCHEME:user:$@HOST", "SCHEME:/user:$@HOST", "SCHEME:///user:$@HOST",
	"SCHEME:////user:$@HOST", "SCHEME:\\\\user:$@HOST", "SCHEME::$@HOST", "SCHEME:/:$@HOST", "SCHEME:///:$@HOST",
	"SCHEME:$@HOST", "SCHEME:/$@HOST", "SCHEME:///$@HOST", "SCHEME:SCHEME://user:$@HOST",
	"SCHEME://SCHEME://user:$@HOST", "SCHEME://user:12/$@HOST", "SCHEME://user:12?$@HOST", "SCHEME://user:12#$@HOST",
	"SCHEME://user:12?a=$@HOST", "SCHEME://user:12/3/$@HOST?prefix=p", "SCHEME://user:$%40HOST", "SCHEME://user:$",
	"SCHEME://:$", "SCHEME://user:$@HOST:x", "SCHEME://user:$@HOST?ttl=never", "SCHEME://user:$@HOST/%zz",
	"SCHEME://user:$@HOST?tll=1s", "SCHEME://user:$@ HOST", "SCHEME://user:$@/nowhere/socket",
	"SCHEME://:$@/nowhere/socket?db=1",
	// As the user.
	"SCHEME://$@HOST", "SCHEME://$@/nowhere/socket", "SCHEME://$:@HOST", "SCHEME://$@",
	// As a port, a database, a fragment or a scheme.
	"SCHEME://HOST:$", "SCHEME://127.0.0.1:$", "SCHEME://HOST,127.0.0.1:$", "SCHEME://HOST/0/$", "SCHEME://HOST/0$",
	"SCHEME://HOST#$", "$://HOST", "$:", "$:user@HOST", "SCHEME+$://HOST", "SCHEME$://HOST", "$", "$@HOST",
	"user:$@HOST", "//user:$@HOST", "://:$@HOST", "\"SCHEME://user:$@HOST\"", "HOLDFAST_STORE=SCHEME://user:$@HOST",
	" SCHEME://user:$@HOST", "SCHEME//user:$@HOST",
	// As a parameter's name, in a parameter that no store has, and in one that has no room for it.
	"SCHEME://HOST?$", "SCHEME://HOST?$=1", "SCHEME://HOST?prefix=p&$", "SCHEME://HOST/0?pwd=$",
	"SCHEME://HOST?password=$", "SCHEME://HOST?user=me&pass=$", "SCHEME:/tmp/x?pwd=$", "SCHEME:?password=$",
	"SCHEME://HOST?PREFIX=$", "SCHEME://HOST?ttl=$", "SCHEME://HOST?db=$", "SCHEME:///tmp/x?db=$",
	"SCHEME://HOST?startup-delay=$", "SCHEME://HOST?eviction=$", "SCHEME://HOST?mode=$",
	"SCHEME://HOST?mode=plain&retry=$",
	"SCHEME://HOST?mode=plain&drift=$", "SCHEME://HOST?wait-replicas=$",
	"SCHEME://HOST?wait-replicas=1&wait-timeout=$", "SCHEME://HOST?max-ttl=$", "SCHEME://HOST?tokens=$",
	"SCHEME://HOST?node-timeout=$", "SCHEME://HOST?allow=$", "SCHEME://HOST?insecure-skip-verify=$",
	"SCHEME://HOST?ca=$",
	"SCHEME://HOST?key=$", "SCHEME://HOST?token-file=$", "SCHEME://HOST?cert=$&key=$", "SCHEME://HOST?prefix=%00$",
	"SCHEME://HOST/main?sentinel-password=$", "SCHEME://HOST/main?sentinel-user=$",
	"SCHEME://HOST/main?sentinel-user=me&sentinel-password=$", "SCHEME://HOST/main?db=$",
	"SCHEME://HOST/main?sentinel-password=$&db=x", "SCHEME://user:$@HOST/main?db=0",
}

// wellFormed has the separators with which such a URL is valid: the two words are then user and password, or a password
// and a host.
var wellFormed = map[string]string{
	"SCHEME://$@HOST": ":", "SCHEME://$:@HOST": ":", "SCHEME://$@/nowhere/socket": ":", "SCHEME://user:$": "@",
	"SCHEME://:$": "@", "SCHEME://HOST:$": "@", "SCHEME://$@": ":",
	"SCHEME://127.0.0.1:$": "@", "SCHEME://HOST,127.0.0.1:$": "@",
}

// named are the schemes whose path names a database.
var named = map[string]bool{"postgres": true, "postgresql": true, "mysql": true, "mariadb": true}

// isNamed reports whether the secret is in a name that a store shows on purpose: that of a Sentinel's master or of a
// database, or the path of a ZooKeeper node.
func isNamed(scheme, place string) bool {
	switch place {
	case "SCHEME://HOST/0/$":
		return scheme == "zk" || scheme == "zks"
	case "SCHEME://HOST/0$":
		return scheme == "zk" || scheme == "zks" || named[scheme] || strings.HasSuffix(scheme, "+sentinel")
	}
	return false
}

// URLs returns URLs of these schemes with a secret in every position, except where a store shows the text on purpose:
// its hosts, the path of its file, socket or node, the name of a Sentinel's master or of a database, the prefix, and a
// user with a password.
func URLs(schemes ...string) iter.Seq[URL] {
	return func(yield func(URL) bool) {
		for _, scheme := range schemes {
			host := nobody
			if strings.HasPrefix(scheme, "redlock") {
				host = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
			}
			for _, place := range places {
				if isNamed(scheme, place) {
					continue
				}
				text := strings.NewReplacer("SCHEME", scheme, "HOST", host).Replace(place)
				for _, separator := range separators {
					if separator != "" && separator == wellFormed[place] {
						continue
					}
					if !yield(Of(text, separator)) {
						return
					}
				}
				// Digits can be taken for a port or a database.
				if !yield(of(text, "90210", "/", "z9qsecond")) || !yield(of(text, "54321", "?", "z9qsecond")) {
					return
				}
			}
		}
	}
}
