package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
)

// pause stops the process, and the children that are not in its group.
func (s *Server) pause(p *child.Process) error {
	if err := pauseOne(p.Cmd.Process, p.Ended); err != nil || !s.forks {
		return err
	}
	return s.eachChild(p, func(c *os.Process) error {
		gone := func() bool { return isGone(c.Pid) }
		if err := pauseOne(c, gone); err != nil && !gone() {
			return err
		}
		return nil
	})
}

// pauseOne stops one process, and returns when it is stopped.
func pauseOne(p *os.Process, ended func() bool) error {
	if err := child.Pause(p); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopPatience); time.Now().Before(deadline); time.Sleep(pollEvery) {
		if ended() {
			return errStopped
		}
		if paused, err := isPaused(p.Pid); paused || err != nil {
			return err
		}
	}
	return fmt.Errorf("it still ran after %v", stopPatience)
}

// resume ends a pause.
func (s *Server) resume(p *child.Process) error {
	err := s.eachChild(p, func(c *os.Process) error {
		if err := child.Resume(c); !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return nil
	})
	return errors.Join(err, child.Resume(p.Cmd.Process))
}

// killAll kills the process and its children. The process is paused first, so that it starts no new children.
func (s *Server) killAll(p *child.Process) error {
	if !s.forks {
		return p.Kill()
	}
	var children []*os.Process
	err := errStopped
	if !p.Ended() {
		err = pauseOne(p.Cmd.Process, p.Ended)
	}
	if err == nil {
		err = s.eachChild(p, func(c *os.Process) error {
			children = append(children, c)
			return nil
		})
	}
	if errors.Is(err, errStopped) {
		err = nil
	}
	for _, c := range children {
		_ = c.Kill() // it may have ended
	}
	err = errors.Join(err, p.Kill())
	for _, c := range children {
		err = errors.Join(err, awaitGone(c.Pid))
	}
	if s.killed != nil {
		err = errors.Join(err, s.killed())
	}
	return err
}

// awaitGone waits until a process has ended. It returns an error if that takes longer than stopPatience.
func awaitGone(pid int) error {
	return pollWithin(stopPatience, func(context.Context) error {
		if !isGone(pid) {
			return fmt.Errorf("its child %d still runs", pid)
		}
		return nil
	})
}

// eachChild calls a function for each child that is not in the process group, if the server has such.
func (s *Server) eachChild(p *child.Process, do func(*os.Process) error) error {
	if !s.forks {
		return nil
	}
	pids, err := childrenOf(p.Cmd.Process.Pid)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		c, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		if err := do(c); err != nil {
			return err
		}
	}
	return nil
}
