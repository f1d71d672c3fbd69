package main

import (
	"net/http"
	"testing"
)

func TestWarehouseTakesAnyWrite(t *testing.T) {
	w := &warehouse{count: 3}
	s := openTestSite(t, w.handler())
	s.check(http.MethodGet, "/stock", http.StatusOK, "3")
	s.checkWith(http.MethodPut, "/stock", "", "7\n", http.StatusNoContent, "")
	s.checkWith(http.MethodPut, "/stock", "", "5", http.StatusNoContent, "")
	s.check(http.MethodGet, "/stock", http.StatusOK, "5")
	s.check(http.MethodGet, "/writes", http.StatusOK, "2")
}

func TestWarehouseRefusesWhatIsNoCount(t *testing.T) {
	w := &warehouse{count: 3}
	s := openTestSite(t, w.handler())
	for _, body := range []string{"", "-1", "3 items", "99999999999999999999"} {
		s.checkWith(http.MethodPut, "/stock", "", body, http.StatusBadRequest, "must be a number")
	}
	s.checkWith(http.MethodPut, "/stock", "", string(make([]byte, 100)), http.StatusBadRequest, "too long")
	s.checkWith(http.MethodPut, "/stock", "abc", "1", http.StatusBadRequest, "no token")
	w.check(t, 3, 0)
}

// TestWarehouseRefusesALateWriter plays a shop that was paused between its read and its write, for so long that
// its lease ran out and the next shop came.
func TestWarehouseRefusesALateWriter(t *testing.T) {
	const late, next = "256", "512"
	w := &warehouse{count: 3}
	s := openTestSite(t, w.handler())
	s.checkWith(http.MethodGet, "/stock", late, "", http.StatusOK, "3")
	s.checkWith(http.MethodGet, "/stock", next, "", http.StatusOK, "3")
	s.checkWith(http.MethodPut, "/stock", late, "2", http.StatusPreconditionFailed, "stale token")
	s.checkWith(http.MethodPut, "/stock", next, "2", http.StatusNoContent, "")
	s.checkWith(http.MethodGet, "/stock", late, "", http.StatusPreconditionFailed, "stale token")
	w.check(t, 2, 1)
}
