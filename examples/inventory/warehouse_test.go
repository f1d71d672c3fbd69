package main

import (
	"net/http"
	"testing"
)

func TestWarehouseTakesAnyWrite(t *testing.T) {
	stock := site(t, (&warehouse{count: 3}).handler()) + "/stock"
	check(t, http.MethodGet, stock, "", "", http.StatusOK, "3")
	check(t, http.MethodPut, stock, "", "7\n", http.StatusOK, "")
	check(t, http.MethodPut, stock, "", "5", http.StatusOK, "")
	check(t, http.MethodGet, stock, "", "", http.StatusOK, "5")
}

func TestWarehouseRefusesWhatIsNoCount(t *testing.T) {
	w := &warehouse{count: 3}
	stock := site(t, w.handler()) + "/stock"
	for _, body := range []string{"", "-1", "3 items", "99999999999999999999", string(make([]byte, 100))} {
		check(t, http.MethodPut, stock, "", body, http.StatusBadRequest, "must be a number")
	}
	check(t, http.MethodPut, stock, "abc", "1", http.StatusBadRequest, "not one decimal token")
	w.has(t, 3)
}

// TestWarehouseRefusesALateWriter plays a shop that was paused between its read and its write, for so long that
// its lease ran out and the next shop came.
func TestWarehouseRefusesALateWriter(t *testing.T) {
	const late, next = "256", "512"
	w := &warehouse{count: 3}
	stock := site(t, w.handler()) + "/stock"
	check(t, http.MethodGet, stock, late, "", http.StatusOK, "3")
	check(t, http.MethodGet, stock, next, "", http.StatusOK, "3")
	check(t, http.MethodPut, stock, late, "2", http.StatusConflict, "stale token")
	check(t, http.MethodPut, stock, next, "2", http.StatusOK, "")
	check(t, http.MethodGet, stock, late, "", http.StatusConflict, "stale token")
	w.has(t, 2)
}
