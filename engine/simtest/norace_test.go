//go:build !race

package simtest

const defaultSeeds = 10_000
