package mcptasks_test

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/workflow"
)

// docs/mcp.md quotes these functions; TestDocumentedCode compares.

func serve(eng *engine.Engine, refund *workflow.Workflow[refundInput, string]) (http.Handler, error) {
	server, err := mcptasks.NewServer(eng, mcptasks.Options{})
	if err != nil {
		return nil, err
	}
	route, err := mcptasks.RouteTo(refund, mcp.Tool{Name: "refund", Description: "Refunds an order."})
	if err != nil {
		return nil, err
	}
	if err := server.SetRoutes(route); err != nil {
		return nil, err
	}
	handler, err := server.Handler(mcptasks.HTTPOptions{})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return mux, nil
}

func serveWithTokens(server *mcptasks.Server, verify auth.TokenVerifier) (http.Handler, error) {
	const metadata = "/.well-known/oauth-protected-resource"
	handler, err := server.Handler(mcptasks.HTTPOptions{
		Auth:        verify,
		AuthOptions: &auth.RequireBearerTokenOptions{ResourceMetadataURL: "https://mcp.example" + metadata},
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle(metadata, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: "https://mcp.example/mcp", AuthorizationServers: []string{"https://login.example"},
	}))
	return mux, nil
}
