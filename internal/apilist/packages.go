package main

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/inboxd/inboxd"

// listings lists every package of the module that others can import, by its path
// below the module.
func listings(root string) (map[string]string, error) {
	found, err := load(root, packages.NeedName|packages.NeedTypes, "./...")
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, p := range found {
		name := strings.TrimPrefix(p.PkgPath, module+"/")
		if importable(p, name) {
			all[name] = "package " + p.PkgPath + "\n\n" + strings.Join(list(p.Types), "\n") + "\n"
		}
	}
	return all, nil
}

func importable(p *packages.Package, name string) bool {
	return p.Name != "main" && !strings.Contains("/"+name+"/", "/internal/") && !strings.HasPrefix(name, "examples/")
}

// load loads packages; one that does not compile is an error.
func load(root string, mode packages.LoadMode, patterns ...string) ([]*packages.Package, error) {
	found, err := packages.Load(&packages.Config{Mode: mode, Dir: root}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", strings.Join(patterns, " "), err)
	}
	var errs []error
	for _, p := range found {
		for _, err := range p.Errors {
			errs = append(errs, fmt.Errorf("load %s: %w", p.PkgPath, err))
		}
	}
	return found, errors.Join(errs...)
}
