// Package frame is the part of a store that does not depend on its server. A store has a [Frame] as a field, and is
// then little more than its operations.
//
// The Frame refuses calls with a bad name and calls on a closed store, bounds calls that have no deadline, turns
// failures into a [store.Fault] without secrets, computes Until from the time of sending, and delivers pushes. An
// operation looks like this:
//
//	func (s *Store) Join(ctx context.Context, c store.Claim) (store.Status, error) {
//		call, err := s.frame.Begin(ctx, c.Name, c.TTL)
//		if err != nil {
//			return store.Status{}, err
//		}
//		defer call.End()
//		status, err := s.send(call.Context, &c)
//		if err := call.Outcome(err); err != nil {
//			return store.Status{}, err
//		}
//		status.Until = call.Until(status.State, c.TTL)
//		return status, nil
//	}
//
// A store whose server has sessions also has [Sessions], which keeps one session alive for all of its claims; [Doubts],
// which inspects claims whose status may have changed; and [Deletes], which repeats the deletes of claims that have
// left until the server has confirmed them. A [Record] is the description of a claim that such a store writes.
//
// docs/writing-a-store.md walks through a whole store.
package frame
