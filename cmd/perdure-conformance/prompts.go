package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func message(c ...mcp.Content) *mcp.GetPromptResult {
	r := &mcp.GetPromptResult{}
	for _, c := range c {
		r.Messages = append(r.Messages, &mcp.PromptMessage{Role: "user", Content: c})
	}
	return r
}

func addPrompt(s *mcp.Server, p *mcp.Prompt, c ...mcp.Content) {
	s.AddPrompt(p, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) { return message(c...), nil })
}

func addPrompts(s *mcp.Server) {
	addPrompt(s, &mcp.Prompt{Name: "test_simple_prompt", Description: "A prompt without arguments."},
		&mcp.TextContent{Text: "This is a simple prompt for testing."})
	addPrompt(s, &mcp.Prompt{Name: "test_prompt_with_image", Description: "A prompt with an image."},
		&mcp.ImageContent{Data: decode(pngBase64), MIMEType: "image/png"}, &mcp.TextContent{Text: "Please analyze the image above."})
	s.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_arguments", Description: "A prompt with arguments.",
		Arguments: []*mcp.PromptArgument{{Name: "arg1", Required: true}, {Name: "arg2", Required: true}},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		a := req.Params.Arguments
		return message(&mcp.TextContent{Text: fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"])}), nil
	})
	s.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "A prompt with a resource.",
		Arguments: []*mcp.PromptArgument{{Name: "resourceUri", Required: true}},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return message(embedded(req.Params.Arguments["resourceUri"]), &mcp.TextContent{Text: "Please process the embedded resource above."}), nil
	})
}

func complete(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
}

const watchedURI = "test://watched-resource"

func addResources(s *mcp.Server) {
	add := func(uri, mime string, c mcp.ResourceContents) {
		s.AddResource(&mcp.Resource{URI: uri, Name: strings.TrimPrefix(uri, "test://"), MIMEType: mime},
			func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				got := c
				got.URI, got.MIMEType = req.Params.URI, mime
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&got}}, nil
			})
	}
	add("test://static-text", "text/plain", mcp.ResourceContents{Text: "This is the content of the static text resource."})
	add("test://static-binary", "image/png", mcp.ResourceContents{Blob: decode(pngBase64)})
	add(watchedURI, "text/plain", mcp.ResourceContents{Text: "Watched resource content"})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json"},
		func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, "test://template/"), "/data")
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
				URI: req.Params.URI, MIMEType: "application/json", Text: fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %[1]s"}`, id),
			}}}, nil
		})
}

// touchResource says every few seconds that the watched resource has changed.
func touchResource(ctx context.Context, s *mcp.Server, log *slog.Logger) {
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: watchedURI}); err != nil {
				log.Warn("resource update was not sent", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}
