// Package faultfs is a disk for tests: a file system in memory, mounted by FUSE, that fails as real disks do and
// remembers what was written in which order.
//
// The types:
//
//   - [Disk] is a mounted file system. [Mount] makes one, on Linux.
//   - A [Fault] goes wrong once the requests that it names come by: an error, a short or lost or misdirected write, a
//     delay. [Disk.Inject] arms it.
//   - An [Op] is one change or sync, in the order in which the disk saw them: [Disk.Recording].
//   - A [Platter] is replayed from ops. It knows what is on disk for certain and what a power cut may still take, and
//     makes an [Image] of each outcome.
//
// # Rules
//
// The process that serves a disk must not map its files into memory: a page fault would wait for a goroutine of the
// process that it stops. Tests use a child process for that.
//
// The model of a power cut is harsher than most disks. A write is durable once its file was synced after it, a name once
// its directory was. Until then every sector of 512 bytes of a write, every change of a length and every name may
// be on disk or not, whatever became of others.
package faultfs
