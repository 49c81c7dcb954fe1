package pgtest

import "os/exec"

func (s *Server) runAs(*exec.Cmd) {}
