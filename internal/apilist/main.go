package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	root := flag.String("root", ".", "the module's `directory`")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "apilist:", err)
		os.Exit(1)
	}
}

// write brings the files under api/ up to date.
func write(root string) error {
	now, err := listings(root)
	if err != nil {
		return err
	}
	before, err := stored(root)
	if err != nil {
		return err
	}
	for name := range before {
		if _, kept := now[name]; !kept {
			if err := os.Remove(file(root, name)); err != nil {
				return err
			}
		}
	}
	for name, listing := range now {
		if err := os.MkdirAll(filepath.Dir(file(root, name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file(root, name), []byte(listing), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// file is where the listing of a package is kept.
func file(root, name string) string {
	return filepath.Join(root, "api", filepath.FromSlash(name)+".txt")
}

// stored reads the listings that are kept, by package.
func stored(root string) (map[string]string, error) {
	kept := map[string]string{}
	top := filepath.Join(root, "api")
	err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err) && path == top:
			return filepath.SkipAll
		case err != nil || d.IsDir():
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		kept[strings.TrimSuffix(filepath.ToSlash(relative), ".txt")] = string(text)
		return nil
	})
	return kept, err
}
