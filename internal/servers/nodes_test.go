package servers

import (
	"errors"
	"testing"
)

func TestAgreed(t *testing.T) {
	var nodes []*RedisServer
	for port := range 4 {
		nodes = append(nodes, &RedisServer{Server: &Server{ports: []int{port}}})
	}
	a, b := nodes[0].Addr(), nodes[1].Addr()
	for _, test := range []struct {
		name  string
		votes []string // of the first nodes; who names nobody does not answer
		want  *RedisServer
	}{
		{"all", []string{b, b, b}, nodes[1]},
		{"two of three", []string{a, b, b}, nodes[1]},
		{"two of three, one silent", []string{"", b, b}, nodes[1]},
		{"one of three", []string{"", b, ""}, nil},
		{"two of four", []string{b, b, a, a}, nil},
		{"a stranger", []string{"127.0.0.1:9", "127.0.0.1:9", b}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := agreed(nodes[:len(test.votes)], nodes, func(voter *RedisServer) (string, error) {
				vote := test.votes[voter.Port()]
				if vote == "" {
					return "", errors.New("silent")
				}
				return vote, nil
			})
			if got != test.want || (err == nil) != (test.want != nil) {
				t.Errorf("agreed on %v, want %v: %v", got, test.want, err)
			}
		})
	}
}
