package runstep

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// process is a started program in a job object, Windows's nearest to a process group. The job dies with its last
// handle, and the handle with this process: so the programs are killed with their parent. A program that the child
// starts before it is assigned to the job would escape; the window is the time between two calls.
type process struct {
	cmd *exec.Cmd
	job windows.Handle
}

func start(cmd *exec.Cmd) (*process, error) {
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		_ = windows.CloseHandle(job)
		return nil, err
	}
	p := &process{cmd, job}
	if err := p.assign(); err != nil {
		_ = cmd.Process.Kill()
		_ = p.reap()
		return nil, err
	}
	return p, nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateJobObject", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, os.NewSyscallError("SetInformationJobObject", err)
	}
	return job, nil
}

func (p *process) assign() error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.cmd.Process.Pid))
	if err != nil {
		return os.NewSyscallError("OpenProcess", err)
	}
	defer windows.CloseHandle(h)
	return os.NewSyscallError("AssignProcessToJobObject", windows.AssignProcessToJobObject(p.job, h))
}

// terminate asks with CTRL_BREAK, the one event that reaches another group.
func (p *process) terminate() {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.cmd.Process.Pid))
}

func (p *process) kill() { _ = windows.TerminateJobObject(p.job, 1) }

func (p *process) wait() { _ = p.cmd.Wait() } // the outcome is in ProcessState

func (p *process) reap() error {
	defer windows.CloseHandle(p.job)
	if p.cmd.ProcessState != nil {
		return nil
	}
	return p.cmd.Wait()
}

func exitCode(state *os.ProcessState) int {
	if state == nil {
		return -1
	}
	return state.ExitCode()
}
