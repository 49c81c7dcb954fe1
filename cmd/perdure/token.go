package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/regular"
	"github.com/perdure/perdure/cmd/perdure/internal/tokens"
)

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Make tokens for callers over HTTP",
		Long:  "Token makes the bearer tokens that callers need where a server runs with --http and --auth-tokens.",
		Args:  exactly(),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.tokenNewCommand())
	return c
}

func (a *app) tokenNewCommand() *cobra.Command {
	var bearer tokens.Bearer
	var file string
	c := &cobra.Command{
		Use:   "new PRINCIPAL",
		Short: "Make a token for a person or a program",
		Long: `New makes a token and prints it, once: nothing keeps it but its owner. What the server keeps is a line with the token's digest
and whose it is. With --file the line is added to that file, which is made where it is missing, open to its owner only; a
running server takes it up at once. Without, the line is printed too.

A token is taken back by removing its line. Callers with one principal and one tenant see each other's tasks, and no others.

The file's lines are sha256:DIGEST PRINCIPAL [TENANT]. The digest of a token that was made elsewhere is what sha256sum says of
it without a line end.`,
		Example: `  perdure token new alice --file /etc/perdure/tokens
  perdure token new ci --tenant acme --file tokens
  PERDURE_TOKEN=perdure_… perdure call hello name=you --url https://tools.example/mcp`,
		Args: exactly("PRINCIPAL"),
		RunE: func(_ *cobra.Command, args []string) error {
			bearer.Principal = args[0]
			if err := bearer.Check(); err != nil {
				return exit.New(exit.Usage, "", "%w", err)
			}
			token := tokens.New()
			line := tokens.Line(tokens.DigestOf(token), bearer)
			if file != "" {
				switch err := regular.AppendLine(file, line); {
				case errors.Is(err, regular.ErrKind):
					return exit.New(exit.Usage, "", "token: %w", err)
				case err != nil:
					return fmt.Errorf("token: %w", err)
				}
			}
			made := map[string]string{"token": token, "line": line[:len(line)-1]}
			return a.print(made, func(w io.Writer) {
				fmt.Fprintln(w, token)
				if file == "" {
					fmt.Fprint(w, line)
				}
			})
		},
	}
	f := c.Flags()
	f.StringVar(&bearer.Tenant, "tenant", "", "the `TENANT` that the principal belongs to")
	f.StringVar(&file, "file", "", "add the line to this `FILE`")
	return c
}
