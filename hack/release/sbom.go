package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill writes the bill of materials of a binary beside it, as CycloneDX JSON, and returns its
// path. The binary itself names the modules that are in it.
func (r *release) bill(binary string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("reading the modules of %s: %w", filepath.Base(binary), err)
	}
	out, err := billOf(info, filepath.Base(binary), r.version)
	if err != nil {
		return "", err
	}
	path := binary + ".cdx.json"
	if err := os.WriteFile(path, out, 0o644); err != nil {
		return "", fmt.Errorf("writing the bill of materials: %w", err)
	}
	return path, nil
}

func billOf(info *buildinfo.BuildInfo, name, version string) ([]byte, error) {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef: info.Main.Path, Type: cdx.ComponentTypeApplication, Name: name, Version: version, PackageURL: "pkg:golang/" + info.Main.Path + "@" + version,
	}}
	components := []cdx.Component{{
		BOMRef: "pkg:golang/std@" + info.GoVersion, Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: "pkg:golang/std@" + info.GoVersion,
	}}
	for _, module := range info.Deps {
		path, of := module.Path, module.Version
		switch replaced := module.Replace; {
		case replaced == nil:
		case strings.HasPrefix(replaced.Path, "."):
			of = version // a module of this repository
		default:
			path, of = replaced.Path, replaced.Version
		}
		url := "pkg:golang/" + path + "@" + of
		components = append(components, cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: of, PackageURL: url})
	}
	bom.Components = &components
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON)
	if err := encoder.SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("encoding the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}
