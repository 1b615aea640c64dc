// Renders a chart as `helm template` does: Go's text/template with the functions of Sprig and those that Helm adds.
// The tests build it with Debian's Go and Sprig, since Helm itself is in no registry that they reach.
//
//	render CHART RELEASE < values.json > {"templates/x.yaml": "…"}
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(chart, release string) error {
	values, err := merged(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	about := map[string]interface{}{}
	if err := readYAML(filepath.Join(chart, "Chart.yaml"), &about); err != nil {
		return err
	}
	root := map[string]interface{}{
		"Values":  values,
		"Chart":   map[string]interface{}{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release": map[string]interface{}{"Name": release, "Namespace": "default", "Service": "Helm"},
	}
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	set := template.New("chart").Option("missingkey=zero")
	set.Funcs(functions(set))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := set.New(filepath.Base(file)).Parse(string(text)); err != nil {
			return err
		}
	}
	rendered := map[string]string{}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out bytes.Buffer
		if err := set.ExecuteTemplate(&out, name, root); err != nil {
			return err
		}
		rendered[name] = out.String()
	}
	return json.NewEncoder(os.Stdout).Encode(rendered)
}

func functions(set *template.Template) template.FuncMap {
	known := sprig.TxtFuncMap()
	delete(known, "env")
	delete(known, "expandenv")
	known["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := set.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	known["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(message)
		}
		return value, nil
	}
	known["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	return known
}

// The chart's values with what standard input holds laid over them, object by object.
func merged(file string) (map[string]interface{}, error) {
	values, over := map[string]interface{}{}, map[string]interface{}{}
	if err := readYAML(file, &values); err != nil {
		return nil, err
	}
	if err := yaml.NewDecoder(os.Stdin).Decode(&over); err != nil {
		return nil, err
	}
	lay(values, over)
	return values, nil
}

func lay(values, over map[string]interface{}) {
	for name, value := range over {
		inner, isObject := value.(map[string]interface{})
		known, wasObject := values[name].(map[string]interface{})
		if isObject && wasObject {
			lay(known, inner)
		} else {
			values[name] = value
		}
	}
}

func readYAML(file string, into interface{}) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}
