package redisstore

import (
	"strconv"
	"strings"
	"sync"
)

// slotCount is how many slots a Redis cluster has. Each key belongs to one, and each slot to one of the masters.
const slotCount = 16384

// slotOf is the slot of a key: that of its hash tag, if it has one.
func slotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % slotCount
}

// crc16 is the checksum that Redis takes for slots: CRC-16/XMODEM.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// tagOf is the hash tag by which this store's own keys come to lie in a slot: the smallest number, written with digits
// and letters, that belongs there. All clients must find the same.
func tagOf(slot int) string { return strconv.FormatUint(uint64(tags()[slot]), tagBase) }

const tagBase = 36

var tags = sync.OnceValue(func() *[slotCount]uint32 {
	var table [slotCount]uint32
	var known [slotCount]bool
	for n, left := uint32(0), slotCount; left > 0; n++ {
		if slot := slotOf(strconv.FormatUint(uint64(n), tagBase)); !known[slot] {
			table[slot], known[slot] = n, true
			left--
		}
	}
	return &table
})
