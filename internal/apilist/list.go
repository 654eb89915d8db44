package main

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// list gives a line for each thing that the package exports, sorted.
func list(p *types.Package) []string {
	l := &lister{pkg: p}
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch o := object.(type) {
		case *types.Const:
			l.add("const %s %s = %s", name, l.text(o.Type()), o.Val().ExactString())
		case *types.Var:
			l.add("var %s %s", name, l.text(o.Type()))
		case *types.Func:
			l.add("func %s%s", name, l.signature(o))
		case *types.TypeName:
			l.typeName(o)
		}
	}
	slices.Sort(l.lines)
	return l.lines
}

type lister struct {
	pkg   *types.Package
	lines []string
}

func (l *lister) add(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// text writes a type: its own package's names bare, others with the package's
// name.
func (l *lister) text(t types.Type) string { return types.TypeString(t, l.qualify) }

func (l *lister) qualify(p *types.Package) string {
	if p == l.pkg {
		return ""
	}
	return p.Name()
}

// signature is a function's, from the type parameters on.
func (l *lister) signature(f *types.Func) string {
	return strings.TrimPrefix(l.text(f.Signature()), "func")
}

func (l *lister) typeName(o *types.TypeName) {
	if o.IsAlias() {
		l.add("type %s = %s", o.Name(), l.text(types.Unalias(o.Type())))
		return
	}
	named := o.Type().(*types.Named)
	name := o.Name() + l.parameters(named.TypeParams())
	switch t := named.Underlying().(type) {
	case *types.Struct:
		l.add("type %s struct", name)
		l.fields(name, t)
	case *types.Interface:
		l.contract(name, t)
		return // its methods are listed
	default:
		l.add("type %s %s", name, l.text(t))
	}
	l.methods(o.Name(), named)
}

func (l *lister) parameters(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var texts []string
	for p := range list.TypeParams() {
		texts = append(texts, p.Obj().Name()+" "+l.text(p.Constraint()))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// fields lists a struct's fields, and those that an unexported embedded struct
// brings.
func (l *lister) fields(name string, s *types.Struct) {
	for i := range s.NumFields() {
		f, tag := s.Field(i), s.Tag(i)
		if tag != "" {
			tag = " `" + tag + "`"
		}
		switch inner, isStruct := f.Type().Underlying().(*types.Struct); {
		case f.Exported() && f.Embedded():
			l.add("type %s struct: embeds %s%s", name, l.text(f.Type()), tag)
		case f.Exported():
			l.add("type %s struct: %s %s%s", name, f.Name(), l.text(f.Type()), tag)
		case f.Embedded() && isStruct:
			l.fields(name, inner)
		}
	}
}

// contract lists an interface's methods. One that has an unexported method can
// be implemented nowhere else, and may get more.
func (l *lister) contract(name string, t *types.Interface) {
	l.add("type %s interface", name)
	for m := range t.Methods() {
		if m.Exported() {
			l.add("type %s interface: %s%s", name, m.Name(), l.signature(m))
		} else {
			l.add("type %s interface: (unexported methods)", name)
		}
	}
	for e := range t.EmbeddedTypes() {
		if _, isInterface := e.Underlying().(*types.Interface); !isInterface {
			l.add("type %s interface: %s", name, l.text(e))
		}
	}
}

// methods lists a type's methods, without those that an exported embedded field
// brings: they are listed where they are from.
func (l *lister) methods(name string, named *types.Named) {
	byValue := types.NewMethodSet(named)
	set := types.NewMethodSet(types.NewPointer(named))
	for m := range set.Methods() {
		f := m.Obj().(*types.Func)
		if !f.Exported() || fromExported(named, m.Index()) {
			continue
		}
		receiver := name
		if byValue.Lookup(l.pkg, f.Name()) == nil {
			receiver = "*" + name
		}
		l.add("method (%s) %s%s", receiver, f.Name(), l.signature(f))
	}
}

func fromExported(named *types.Named, path []int) bool {
	s, isStruct := named.Underlying().(*types.Struct)
	return isStruct && len(path) > 1 && s.Field(path[0]).Exported()
}
