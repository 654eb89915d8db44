package cmd

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is what the binary knows about its own making.
type versionInfo struct {
	Version  string  `json:"version"`
	Revision *string `json:"revision"`
	Time     *string `json:"time"`     // of the revision
	Modified *bool   `json:"modified"` // the source differed from the revision
	Go       string  `json:"go"`
	Platform string  `json:"platform"`
}

func newVersionCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			return a.show(v, []field{
				{"version", v.Version}, {"revision", v.Revision}, {"time", v.Time},
				{"modified", v.Modified}, {"go", v.Go}, {"platform", v.Platform},
			}, nil)
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

// modulePath is found among the dependencies when the binary is a team's own.
const modulePath = "github.com/inboxd/inboxd"

// buildVersion reads what the Go tool wrote into the binary. A team's own
// binary has the version of the module and not its revision.
func buildVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, dep := range info.Deps {
		if dep.Path == modulePath {
			v.Version = dep.Version
			return v
		}
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch value := s.Value; s.Key {
		case "vcs.revision":
			v.Revision = &value
		case "vcs.time":
			v.Time = &value
		case "vcs.modified":
			modified := value == "true"
			v.Modified = &modified
		}
	}
	return v
}
