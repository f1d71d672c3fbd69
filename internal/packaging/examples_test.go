package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// checkCommand returns the error of a command line of holdfast that is called wrongly. It runs nothing.
func checkCommand(args []string) error {
	if len(args) == 0 || filepath.Base(args[0]) != "holdfast" {
		return fmt.Errorf("it does not call holdfast: %q", args)
	}
	cmd, rest, err := cli.Command().Find(args[1:])
	if err != nil {
		return err
	}
	if !cmd.Runnable() {
		return fmt.Errorf("%s is not a command that runs", cmd.CommandPath())
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	if cmd.PreRunE != nil {
		return cmd.PreRunE(cmd, cmd.Flags().Args())
	}
	return nil
}

// words splits a command line at spaces, as a shell and systemd do, and removes quotes.
func words(line string) ([]string, error) {
	var all []string
	var word strings.Builder
	var quote rune
	began := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, began = c, true
		case quote == 0 && c == ' ':
			if began {
				all = append(all, word.String())
			}
			word.Reset()
			began = false
		default:
			word.WriteRune(c)
			began = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote does not end")
	}
	if began {
		all = append(all, word.String())
	}
	return all, nil
}

// checkLine checks a command line: of holdfast, or of a shell that becomes holdfast.
func checkLine(line string) error {
	args, err := words(line)
	if err != nil {
		return err
	}
	if len(args) == 3 && args[0] == "/bin/sh" && args[1] == "-c" {
		script, ok := strings.CutPrefix(args[2], "exec ")
		if !ok {
			return errors.New("the shell does not exec, and would be what gets signals")
		}
		if args, err = words(script); err != nil {
			return err
		}
	}
	return checkCommand(args)
}

// TestWrongCommandsAreFound: the check of command lines finds what it is there to find.
func TestWrongCommandsAreFound(t *testing.T) {
	if err := checkLine(`/bin/sh -c 'exec /usr/bin/holdfast run --once "$(date -u +%%F)" x -- y'`); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"flock x", "holdfast", "holdfast running x -- y", "holdfast run --no-such x -- y", "holdfast run x y",
		"holdfast run --at-least soon x -- y", "holdfast run --keep-for 1h x -- y", "holdfast run --once a x y -- z",
		"holdfast elect a b -- c", "holdfast exporter --listen none", "holdfast exporter x", "holdfast run 'x -- y",
		"/bin/sh -c 'holdfast run x -- y'", "/bin/sh -c 'exec holdfast run x'", "holdfast exit-codes",
	} {
		if checkLine(line) == nil {
			t.Errorf("%s passed", line)
		}
	}
}

// files returns the files of a folder below packaging.
func files(t *testing.T, pattern string, least int) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "packaging", pattern))
	testkit.Must(t, err)
	if len(paths) < least {
		t.Fatalf("%s matches only %q", pattern, paths)
	}
	all := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		testkit.Must(t, err)
		all[filepath.Base(path)] = string(text)
	}
	return all
}

// stores parses the URLs of stores in a text, be they commented out or not.
func stores(t *testing.T, text string) {
	t.Helper()
	setting := regexp.MustCompile(`(?m)^#?(?:Environment=)?HOLDFAST_STORE=(\S+:\S+)$`)
	for _, m := range setting.FindAllStringSubmatch(text, -1) {
		if strings.HasSuffix(m[1], "...") {
			continue
		}
		if _, err := store.ParseLocation(m[1]); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
}

// settings are the sections and keys that units may have here. systemd ignores a key that it does not know, with a
// warning that is easily overlooked.
var settings = map[string]string{
	"Unit":    "Description Documentation Wants After",
	"Install": "WantedBy",
	"Timer":   "OnCalendar Persistent AccuracySec",
	"Service": "Type User Environment EnvironmentFile ExecStart Restart RestartSec RestartPreventExitStatus KillMode " +
		"TimeoutStopSec DynamicUser CapabilityBoundingSet LockPersonality MemoryDenyWriteExecute NoNewPrivileges " +
		"PrivateDevices ProtectClock ProtectControlGroups ProtectHome ProtectKernelLogs ProtectKernelModules " +
		"ProtectKernelTunables ProtectSystem RestrictAddressFamilies RestrictNamespaces RestrictRealtime " +
		"SystemCallArchitectures SystemCallFilter",
}

// parseUnit returns the settings of a unit, as Section.Key. It fails for one that is not known.
func parseUnit(text string) (map[string]string, error) {
	unit, section := map[string]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, assigned := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
			if settings[section] == "" {
				return nil, fmt.Errorf("unknown section: %s", line)
			}
		case !assigned || !slices.Contains(strings.Fields(settings[section]), key):
			return nil, fmt.Errorf("unknown in [%s]: %s", section, line)
		default:
			unit[section+"."+key] = value
		}
	}
	return unit, nil
}

// TestUnits: all units have known settings, and services call holdfast correctly and leave its command to it.
func TestUnits(t *testing.T) {
	units := files(t, "systemd/examples/*", 5)
	for name, text := range files(t, "systemd/*.service", 1) {
		units[name] = text
	}
	for name, text := range units {
		stores(t, text)
		unit, err := parseUnit(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		base, isTimer := strings.CutSuffix(name, ".timer")
		if isTimer {
			if units[base+".service"] == "" || unit["Timer.OnCalendar"] == "" ||
				unit["Install.WantedBy"] != "timers.target" {
				t.Errorf("%s: no service, no time, or not installed by timers.target", name)
			}
			continue
		}
		if err := checkLine(unit["Service.ExecStart"]); err != nil {
			t.Errorf("%s: %s: %v", name, unit["Service.ExecStart"], err)
		}
		if strings.Contains(unit["Service.ExecStart"], " -- ") && unit["Service.KillMode"] != "mixed" {
			t.Errorf("%s: the command would get SIGTERM twice", name)
		}
		if unit["Service.EnvironmentFile"] == "" {
			t.Errorf("%s: no store", name)
		}
	}
	for _, bad := range []string{"[Unit]\nX=1\n", "[Nothing]\n", "Description=x\n", "[Service]\nRestart\n"} {
		if _, err := parseUnit(bad); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
	stores(t, files(t, "systemd/*.default", 1)["holdfast-exporter.default"])
}

// TestSystemdVerify: systemd finds no fault in the units, except that their programs are not installed here.
func TestSystemdVerify(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here; TestUnits has checked the units")
	}
	paths := []string{"packaging/systemd/holdfast-exporter.service"}
	for name := range files(t, "systemd/examples/*", 5) {
		paths = append(paths, "packaging/systemd/examples/"+name)
	}
	cmd := exec.CommandContext(t.Context(), verify, append([]string{"verify", "--man=no"}, paths...)...)
	cmd.Dir = root
	out, _ := cmd.CombinedOutput() // it fails for a program that is not installed
	ours := regexp.MustCompile(`(holdfast-exporter|nightly|poll|scheduler)\.(service|timer)`)
	for line := range strings.Lines(string(out)) {
		if ours.MatchString(line) && !strings.Contains(line, "is not executable: No such file or directory") {
			t.Error(line)
		}
	}
}

// TestCrontab: each job of the crontab calls holdfast correctly.
func TestCrontab(t *testing.T) {
	jobs := 0
	text := files(t, "cron/*", 1)["holdfast.cron"]
	stores(t, text)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || regexp.MustCompile(`^[A-Z_]+=`).MatchString(line) {
			continue
		}
		jobs++
		m := regexp.MustCompile(`^(?:[\d*/]+ +){5}[a-z]+ +(holdfast .*)$`).FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a line of /etc/cron.d: %s", line)
		} else if err := checkLine(m[1]); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
		if regexp.MustCompile(`[^\\]%`).MatchString(line) {
			t.Errorf("a %% ends the command of a crontab: %s", line)
		}
	}
	if jobs < 3 {
		t.Errorf("only %d jobs", jobs)
	}
}

// A manifest is the part of Kubernetes' API that the examples use. Fields that are not here are errors.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Replicas int
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template    template
		Schedule    string
		TimeZone    string `yaml:"timeZone"`
		Concurrency string `yaml:"concurrencyPolicy"`
		JobTemplate struct {
			Spec struct {
				BackoffLimit *int `yaml:"backoffLimit"`
				Template     template
			}
		} `yaml:"jobTemplate"`
	}
}

// A template is that of a pod.
type template struct {
	Metadata struct{ Labels, Annotations map[string]string }
	Spec     struct {
		RestartPolicy string         `yaml:"restartPolicy"`
		Grace         int            `yaml:"terminationGracePeriodSeconds"`
		Automount     *bool          `yaml:"automountServiceAccountToken"`
		Security      map[string]any `yaml:"securityContext"`
		Containers    []container
	}
}

type container struct {
	Name, Image   string
	Command, Args []string
	Ports         []struct {
		Name string
		Port int `yaml:"containerPort"`
	}
	Readiness map[string]any `yaml:"readinessProbe"`
	Security  map[string]any `yaml:"securityContext"`
	Env       []struct {
		Name      string
		ValueFrom struct {
			Field struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
			Secret struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
}

// check returns what is wrong with a container: how it calls holdfast, or a variable that is not set.
func (c *container) check() error {
	line := c.Command
	if len(line) == 0 {
		line = []string{"holdfast"} // the entry point of the image of holdfast
	}
	line = slices.Concat(line, c.Args)
	if err := checkCommand(line); err != nil {
		return err
	}
	set := map[string]bool{}
	for _, e := range c.Env {
		set[e.Name] = e.ValueFrom.Field.FieldPath != "" || e.ValueFrom.Secret.Key != ""
	}
	used := regexp.MustCompile(`\$\((\w+)\)`)
	for _, m := range used.FindAllStringSubmatch(strings.Join(line, " ")+"$(HOLDFAST_STORE)", -1) {
		if !set[m[1]] {
			return fmt.Errorf("%s is not set", m[1])
		}
	}
	return nil
}

// TestManifests: the manifests have known fields only, and their containers call holdfast correctly, with a store.
func TestManifests(t *testing.T) {
	kinds := map[string]int{}
	for name, text := range files(t, "kubernetes/*.yaml", 3) {
		decoder := yaml.NewDecoder(bytes.NewBufferString(text))
		decoder.KnownFields(true)
		for {
			var m manifest
			err := decoder.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			kinds[m.APIVersion+" "+m.Kind]++
			pod := m.Spec.Template
			if m.Kind == "CronJob" {
				pod = m.Spec.JobTemplate.Spec.Template
				if b := m.Spec.JobTemplate.Spec.BackoffLimit; b == nil || *b != 0 || pod.Spec.RestartPolicy != "Never" {
					t.Errorf("%s: %s would be tried again", name, m.Metadata.Name)
				}
			} else if m.Spec.Selector.MatchLabels["app"] == "" ||
				m.Spec.Selector.MatchLabels["app"] != pod.Metadata.Labels["app"] {
				t.Errorf("%s: %s does not select its pods", name, m.Metadata.Name)
			}
			if len(pod.Spec.Containers) != 1 {
				t.Errorf("%s: %s has %d containers", name, m.Metadata.Name, len(pod.Spec.Containers))
			}
			for _, c := range pod.Spec.Containers {
				if err := c.check(); err != nil {
					t.Errorf("%s: %s: %v", name, c.Name, err)
				}
			}
		}
	}
	if kinds["batch/v1 CronJob"] != 2 || kinds["apps/v1 Deployment"] != 2 || len(kinds) != 2 {
		t.Errorf("the kinds are %v", kinds)
	}
}
