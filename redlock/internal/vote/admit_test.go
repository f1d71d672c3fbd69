package vote

import (
	"testing"
	"time"
)

func TestAdmission(t *testing.T) {
	needs := Answer{Code: NoVote, Episode: Episode{"two", 5}, Mark: 50}
	votes := func(mark uint64) *Answer { return &Answer{Code: Absent, Votes: true, Mark: mark} }
	early := Answer{Code: Absent, Episode: Episode{"two", 5}, Wait: 1, Mark: 70}
	for name, c := range map[string]struct {
		said []*Answer // by nodes 1 and up; nil: nothing
		want uint64    // the mark that it gets; 0: it is not admitted
		wait bool      // only when time is up
	}{
		"a majority votes":       {[]*Answer{votes(10), votes(90), votes(80), nil}, 90, false},
		"its own mark is higher": {[]*Answer{votes(10), votes(20), votes(30), nil}, 50, false},
		"two are no majority":    {[]*Answer{votes(10), votes(90), nil, nil}, 0, false},
		"one is served":          {[]*Answer{votes(10), votes(90), &needs, nil}, 0, false},
		"a majority is served":   {[]*Answer{votes(10), votes(90), &needs, &needs}, 90, false},
		"served, one is silent":  {[]*Answer{votes(10), nil, &needs, &needs}, 50, true},
		"one is not served":      {[]*Answer{votes(10), votes(90), &needs, &early}, 0, false},
		"failures do not count":  {[]*Answer{votes(10), votes(90), {}, {}}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewAdmitter(&Rules{Nodes: 5, MaxTTL: testMax})
			s := m.Notice(0, 0, &needs)
			if len(s.Send) != 4 || s.Send[0].Request.Op != Look {
				t.Fatalf("%+v", s)
			}
			seq := s.Send[0].Seq
			var got []Send
			note := func(s Step) {
				for _, one := range s.Send {
					if one.Node == 0 && one.Request.Op == Admit {
						got = append(got, one)
					}
				}
			}
			for i, a := range c.said {
				if a != nil {
					note(m.Answer(0, i+1, seq, *a))
				}
			}
			if c.wait && len(got) > 0 {
				t.Fatal("it did not wait for all")
			}
			note(m.Wake(time.Second))
			switch {
			case c.want == 0 && len(got) > 0:
				t.Errorf("admitted: %+v", got)
			case c.want != 0 && (len(got) != 1 || got[0].Request.Ticket != c.want ||
				got[0].Request.Episode != needs.Episode):
				t.Errorf("%+v, want mark %d", got, c.want)
			}
		})
	}
}

// An admission that got lost is begun again, when its time is up.
func TestAdmissionAgain(t *testing.T) {
	needs := Answer{Code: NoVote, Episode: Episode{"two", 5}}
	m := NewAdmitter(&Rules{Nodes: 3, MaxTTL: testMax})
	m.Notice(0, 0, &needs)
	if s := m.Notice(1, 0, &needs); len(s.Send) != 0 {
		t.Error("asked twice at once")
	}
	if s := m.Notice(time.Second, 0, &needs); len(s.Send) != 2 {
		t.Error("not asked again")
	}
}

// When a majority has lost its data, all who have served are admitted together. One by one they would be stuck: two
// that vote and one that needs a mark are a majority of nothing.
func TestAdmittedTogether(t *testing.T) {
	needs := func(run string) *Answer { return &Answer{Code: NoVote, Episode: Episode{run, 5}, Mark: 50} }
	m := NewAdmitter(&Rules{Nodes: 5, MaxTTL: testMax})
	seq := m.Notice(0, 0, needs("a")).Send[0].Seq
	m.Answer(0, 1, seq, *needs("b"))
	m.Answer(0, 2, seq, *needs("c"))
	admitted := map[int]string{}
	for _, one := range m.Wake(time.Second).Send {
		if one.Request.Op == Admit && one.Request.Ticket == 50 {
			admitted[one.Node] = one.Request.Episode.Run
		}
	}
	if len(admitted) != 3 || admitted[0] != "a" || admitted[1] != "b" || admitted[2] != "c" {
		t.Errorf("admitted are %v, want three, each in its own quarantine", admitted)
	}
}
