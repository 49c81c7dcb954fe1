//go:build unix

package pgtest

import (
	"os/exec"
	"strconv"
	"syscall"
)

// runAs makes the command run as the cluster's owner.
func (s *Server) runAs(c *exec.Cmd) {
	if s.owner == nil {
		return
	}
	uid, _ := strconv.ParseUint(s.owner.Uid, 10, 32)
	gid, _ := strconv.ParseUint(s.owner.Gid, 10, 32)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}
