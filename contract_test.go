package holdfast_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestProgramsImportOneStoreOnly checks that a program which uses every primitive and prints holders, such as the one
// of example_program_test.go, imports nothing of this module but holdfast and the package of its store.
func TestProgramsImportOneStoreOnly(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "example_program_test.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var imported []string
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if strings.HasPrefix(path, module) {
			imported = append(imported, path)
		}
	}
	if got, want := strings.Join(imported, " "), module+" "+module+"/memstore"; got != want {
		t.Errorf("it imports %s, want %s", got, want)
	}
	used := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			used[s.Sel.Name] = true
		}
		return true
	})
	for _, name := range []string{
		"Mutex", "RWMutex", "Semaphore", "Election", "LockAll", "TryLockAll", "DoAll", "Ping", "Watch", "Inspect",
		"Names",
		"Break", "Abilities", "TokenFrom", "LockedError", "Fault", "Owner", "Entry", "KindSemaphore",
	} {
		if !used[name] {
			t.Errorf("it does not use %s", name)
		}
	}
}

// TestExportedTypesHaveNamesInThisPackage checks that exported declarations mention package store only in contract.go,
// where its types get names of this package.
func TestExportedTypesHaveNamesInThisPackage(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, f := range files {
		name := f.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "contract.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			for _, part := range exportedTypes(d) {
				checked++
				ast.Inspect(part, func(n ast.Node) bool {
					s, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "store" {
						t.Errorf("%s: an exported declaration mentions store.%s", name, s.Sel.Name)
					}
					return true
				})
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d declarations were found", checked)
	}
}

// exportedTypes returns the types that an exported declaration shows: those of a signature, of exported fields, and of
// the methods of an interface.
func exportedTypes(d ast.Decl) (types []ast.Node) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() {
			types = append(types, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			s, ok := spec.(*ast.TypeSpec)
			if !ok || !s.Name.IsExported() {
				continue
			}
			switch of := s.Type.(type) {
			case *ast.StructType:
				for _, field := range of.Fields.List {
					if len(field.Names) == 0 || field.Names[0].IsExported() {
						types = append(types, field.Type)
					}
				}
			case *ast.InterfaceType:
				types = append(types, of)
			}
		}
	}
	return types
}
