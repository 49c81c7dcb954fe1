package admin

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"time"
)

// protocol names what GET /v1/stdio upgrades to.
const protocol = "mcp-lines"

// upgradeTimeout bounds the handshake. A server that is draining does not answer.
const upgradeTimeout = 5 * time.Second

// upgrade turns a fresh connection into a stream of messages.
func upgrade(conn net.Conn) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(upgradeTimeout)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "GET /v1/stdio HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		defer res.Body.Close()
		return nil, problemOf(res)
	}
	return &buffered{Conn: conn, r: r}, conn.SetDeadline(time.Time{})
}

// buffered reads first what came along with the handshake.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// Accept is the server's half of the upgrade: it takes the connection over, or answers the request with an error.
func Accept(w http.ResponseWriter, r *http.Request) (net.Conn, error) {
	if r.Header.Get("Upgrade") != protocol {
		http.Error(w, "this address upgrades to "+protocol, http.StatusUpgradeRequired)
		return nil, fmt.Errorf("upgrade to %q was asked for", r.Header.Get("Upgrade"))
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol); err != nil {
		return nil, err
	}
	return &buffered{Conn: conn, r: rw.Reader}, nil
}
