package httpstep

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// policy says which addresses may be connected to.
type policy struct {
	prefixes []netip.Prefix
	ports    []netip.AddrPort
}

func parsePolicy(entries []string) (policy, error) {
	var p policy
	for _, entry := range entries {
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			p.prefixes = append(p.prefixes, prefix.Masked())
		} else if address, err := netip.ParseAddr(entry); err == nil {
			address = address.Unmap()
			p.prefixes = append(p.prefixes, netip.PrefixFrom(address, address.BitLen()))
		} else if pair, err := netip.ParseAddrPort(entry); err == nil {
			p.ports = append(p.ports, netip.AddrPortFrom(pair.Addr().Unmap(), pair.Port()))
		} else {
			return p, fmt.Errorf("allow_private: %q is not an address", entry)
		}
	}
	return p, nil
}

// special are the prefixes, beside those that netip knows by name, that are not on the public internet or lead back
// into private networks by translation (IANA special-purpose address registries).
var special = parsePrefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
)

func parsePrefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// private reports whether an address is not a public one.
func private(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return true
	}
	for _, p := range special {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func (p policy) allows(to netip.AddrPort) bool {
	address := to.Addr().Unmap().WithZone("")
	if !private(address) {
		return true
	}
	for _, prefix := range p.prefixes {
		if prefix.Contains(address) {
			return true
		}
	}
	for _, pair := range p.ports {
		if pair.Addr() == address && pair.Port() == to.Port() {
			return true
		}
	}
	return false
}

// privateError refuses an address.
type privateError struct {
	address netip.AddrPort
}

func (e *privateError) Error() string { return "the address " + e.address.String() + " is private" }

// control is a net.Dialer.Control: it is called with each resolved address before the connection is made.
func (p policy) control(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return fmt.Errorf("refused: %s %s", network, address)
	}
	if !p.allows(to) {
		return &privateError{netip.AddrPortFrom(to.Addr().Unmap(), to.Port())}
	}
	return nil
}
