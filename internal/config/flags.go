package config

import (
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

const keyAnnotation = "inboxd_config_key"

// BindFlag makes a flag of fs, defined already, set the key of the
// configuration at path whenever it is given. It panics if there is no such
// flag or no such key.
func BindFlag(fs *pflag.FlagSet, name, path string) {
	if _, ok := keysByPath[path]; !ok {
		panic("no key " + path)
	}
	if err := fs.SetAnnotation(name, keyAnnotation, []string{path}); err != nil {
		panic(err)
	}
}

// flags is the layer of bound flags that were given.
func (l *loader) flags() koanf.Provider {
	return posflag.ProviderWithFlag(l.opts.Flags, ".", nil, l.flag)
}

func (l *loader) flag(f *pflag.Flag) (string, any) {
	paths := f.Annotations[keyAnnotation]
	if !f.Changed || len(paths) == 0 {
		return "", nil
	}
	k := keysByPath[paths[0]]
	if secretKeys[k.path] && hasPassword(f.Value.String()) {
		l.problems.add("--"+f.Name, k.path, "a password on the command line can be read by other users of the machine;"+
			" leave it out and set PGPASSWORD, or give the whole URL as %s or in the file that %s names",
			k.variable(), variableOf("database.url_file"))
		return "", nil
	}
	v, wrong := k.parseFlag(f)
	if wrong != "" {
		l.problems.add("--"+f.Name, k.path, "%s", wrong)
		return "", nil
	}
	return k.path, v
}

func (k key) parseFlag(f *pflag.Flag) (any, string) {
	if items, ok := f.Value.(pflag.SliceValue); ok && k.kind == list {
		return items.GetSlice(), k.check(items.GetSlice())
	}
	return k.parse(f.Value.String())
}
