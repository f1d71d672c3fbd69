package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The workers in Java.
//
//go:embed java
var javaSources embed.FS

// hireJava makes the function that starts a worker of this class. classes returns its class path.
func hireJava(class string, classes func() (string, error)) func(context.Context, assignment) (*hand, error) {
	return func(ctx context.Context, a assignment) (*hand, error) {
		path, err := classes()
		if err != nil {
			return nil, err
		}
		cmd := exec.Command("java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp", path, class)
		return hireProgram(ctx, cmd, inJSON, a)
	}
}

var (
	hireCurator  = hireJava("CuratorWorker", curatorClasses)
	hireRedisson = hireJava("RedissonWorker", redissonClasses)
)

// Where Debian has Curator. Its jars name the others that they need, but for a logger.
const debianJars = "/usr/share/java"

var curatorJars = []string{
	"curator-recipes.jar", "curator-framework.jar", "curator-client.jar", "guava.jar", "zookeeper.jar", "slf4j-nop.jar",
}

// curatorClasses compiles Curator's worker, once per machine, and returns the class path that it runs with.
var curatorClasses = sync.OnceValues(func() (string, error) {
	paths := make([]string, len(curatorJars))
	for i, jar := range curatorJars {
		paths[i] = filepath.Join(debianJars, jar)
		if _, err := os.Stat(paths[i]); err != nil {
			return "", fmt.Errorf("%w: apt-get install libcurator-recipes-java default-jdk-headless", err)
		}
	}
	jars := strings.Join(paths, string(filepath.ListSeparator))
	dir, err := cached("CuratorWorker", jars, func(dir string) error { return compile("CuratorWorker", dir, jars) })
	return dir + string(filepath.ListSeparator) + jars, err
})

const redissonVersion = "4.7.0"

// redissonPOM is what Maven reads to fetch Redisson, and a logger that is silent.
const redissonPOM = `<project><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>bench</artifactId><version>0</version><dependencies>
<dependency><groupId>org.redisson</groupId><artifactId>redisson</artifactId><version>` + redissonVersion + `</version>
</dependency><dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.17</version>
</dependency></dependencies></project>`

// redissonClasses fetches Redisson by Maven and compiles its worker, once per machine, and returns the class path.
var redissonClasses = sync.OnceValues(func() (string, error) {
	dir, err := cached("RedissonWorker", redissonPOM, func(dir string) error {
		pom := filepath.Join(dir, "pom.xml")
		if err := os.WriteFile(pom, []byte(redissonPOM), 0o600); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		err := output(exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", pom,
			"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DoutputDirectory="+dir))
		if err != nil {
			return err
		}
		return compile("RedissonWorker", dir, filepath.Join(dir, "*"))
	})
	return dir + string(filepath.ListSeparator) + filepath.Join(dir, "*"), err
})

func needsRedisson() error {
	_, err := redissonClasses()
	return err
}

// cached returns the folder in the cache that a worker runs from. key identifies what else is in it than the worker's
// classes. If the folder is not there, fill makes its content; it is there only when that is done.
func cached(class, key string, fill func(dir string) error) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range []string{"Worker", class} {
		source, err := javaSources.ReadFile("java/" + name + ".java")
		if err != nil {
			return "", err
		}
		sum.Write(source)
	}
	sum.Write([]byte(key))
	dir := filepath.Join(cache, "holdfast", fmt.Sprintf("%s-%x", class, sum.Sum(nil)))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return dir, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	draft, err := os.MkdirTemp(filepath.Dir(dir), "draft-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(draft) //nolint:errcheck // it is in the cache
	if err := fill(draft); err != nil {
		return "", err
	}
	if err := os.Rename(draft, dir); err != nil && !errors.Is(err, os.ErrExist) { // another may have been faster
		return "", err
	}
	return dir, nil
}

// compile compiles a worker into a folder.
func compile(class, dir, jars string) error {
	if err := os.CopyFS(dir, javaSources); err != nil {
		return err
	}
	sources := filepath.Join(dir, "java")
	return output(exec.Command("javac", "-d", dir, "-cp", jars, "-sourcepath", sources,
		filepath.Join(sources, class+".java")))
}

// output runs a command. Its error has what the command wrote.
func output(cmd *exec.Cmd) error {
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, said)
	}
	return nil
}
