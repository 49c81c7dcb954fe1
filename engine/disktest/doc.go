// Package disktest puts a store on disks that fail, and cuts their power.
//
// It has tests only. [github.com/perdure/perdure/engine/disktest/faultfs] is the disk: a file system in memory, mounted by
// FUSE. The store runs in a child process, this test's binary started again: a process must not map files into memory that
// it serves itself, and a child can be killed, can hang, and can die of a memory fault. Where FUSE is not there the tests
// say what they need, and are skipped.
//
// Three kinds of test:
//
//   - faults: each row of the table of damage in docs/formats.md, by its name: an injected fault, the error that it must
//     end in, and the way out of it;
//   - power loss: a workload is recorded, and each of many thousands of disks that a power cut could have left at some
//     moment is opened, verified, and held against what had been acknowledged by then;
//   - the whole process: the command's server on a disk that fails, and what its clients are told.
//
// Environment variables: PERDURE_DISK_IMAGES is how many images of a power cut are made, PERDURE_DISK_SEED repeats a
// failing workload, PERDURE_DISK_KEEP is a folder that keeps the images that fail.
package disktest
