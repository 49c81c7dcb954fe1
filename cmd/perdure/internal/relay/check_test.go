package relay

import (
	"strings"
	"testing"
	"testing/synctest"
)

// The SDK ends a connection at a line that is no message. So the relay answers such a line itself, and what is under way
// goes on.
func TestWhatIsNoMessageIsAnsweredAndHarmsNothing(t *testing.T) {
	deep := strings.Repeat(`[`, maxDepth) + strings.Repeat(`]`, maxDepth)
	lines := map[string]string{
		`[]`:                    `{"jsonrpc":"2.0","error":{"code":-32600`,
		`[1,2]`:                 `{"jsonrpc":"2.0","error"`,
		`null`:                  `{"jsonrpc":"2.0","error"`,
		`7`:                     `{"jsonrpc":"2.0","error"`,
		`{}`:                    `{"jsonrpc":"2.0","error"`,
		`{"id":1,"method":"x"}`: `"id":1,"error":{"code":-32600,"message":"jsonrpc`,
		`{"jsonrpc":"1.0","id":"a","method":"x"}`:                           `"id":"a"`,
		`{"jsonrpc":"2.0","id":2,"method":5}`:                               `"id":2,"error":{"code":-32600,"message":"method`,
		`{"jsonrpc":"2.0","id":2,"method":null}`:                            `"id":2`,
		`{"jsonrpc":"2.0","id":1.5,"method":"x"}`:                           `{"jsonrpc":"2.0","error":{"code":-32600,"message":"id`,
		`{"jsonrpc":"2.0","id":{},"method":"x"}`:                            `"message":"id`,
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"x"}`:              `"message":"id`,
		`{"jsonrpc":"2.0","ID":1,"METHOD":"x"}`:                             `{"jsonrpc":"2.0","error"`,
		`{"jsonrpc":"2.0","id":"c1:1","error":"x"}`:                         `"message":"error`,
		`{"jsonrpc":"2.0","id":3,"method":"x","params":{"a":` + deep + `}}`: `"id":3,"error":{"code":-32600,"message":"the message is nested`,
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect()
		r.client(`{"jsonrpc":"2.0","id":"\u0061 call","method":"tools/list"}`)
		r.atServer(`tools/list`)
		for line, want := range lines {
			r.client(line)
			r.atClient(want)
		}
		r.client(`{"jsonrpc":"2.0","id":"]}[{\"","method":"x"}`) // brackets in strings are none
		r.atServer(`]}[{`)
		r.serve(`{"jsonrpc":"2.0","id":"]}[{\"","result":{}}`)
		r.atClient(`]}[{`)
		r.serve(`{"jsonrpc":"2.0","id":"a call","result":{}}`) // one id, spelled otherwise
		r.atClient(`"a call"`)
		_ = r.in.Close()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestBatchesAreForTheRevisionThatHasThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.connect()
		r.client(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`)
		r.atServer(`initialize`)
		r.serve(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		r.atClient(`"id":1`)
		r.client(`[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"ping"}]`)
		r.atServer(`"id":3`)
		r.client(`[{"jsonrpc":"2.0","id":2,"method":"ping"},5]`)
		r.atClient(`{"jsonrpc":"2.0","error"`)
		r.client(`[]`)
		r.atClient(`{"jsonrpc":"2.0","error"`)
		_ = r.in.Close()
		<-r.ended
	})
}
