// Package engine runs durable workflows on a [Store].
package engine
