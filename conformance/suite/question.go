package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/longshore-dev/longshore/conformance/trial"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// memberObject is the fact that operations change.
const memberObject = "object"

// question is asked of a module.
type question struct {
	name     string
	point    contract.Point
	moment   contract.Moment
	settings json.RawMessage
	// facts are all facts, the object among them.
	facts map[string]any
	// future is set if they have fields of a future Kubernetes.
	future bool
}

// ask returns the question for a trial.
func (q *question) ask() *trial.Question {
	object, _ := q.facts[memberObject].(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	others := maps.Clone(q.facts)
	delete(others, memberObject)
	return &trial.Question{Point: q.point, Moment: q.moment, Object: object, Facts: others, SkipChecks: q.future}
}

// request encodes the question with all facts, those that the manifest does not declare too.
func (q *question) request() ([]byte, error) {
	facts, err := json.Marshal(q.facts)
	if err != nil {
		return nil, fmt.Errorf("encoding the facts: %w", err)
	}
	data, err := json.Marshal(contract.Request{Version: contract.Version, Point: q.point, Moment: q.moment, Settings: q.settings, Facts: facts})
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	return data, nil
}

// with returns the question about other facts.
func (q *question) with(facts map[string]any) *question {
	changed := *q
	changed.facts = facts
	return &changed
}

// withObject returns the question about another object.
func (q *question) withObject(object map[string]any) *question {
	facts := maps.Clone(q.facts)
	facts[memberObject] = object
	return q.with(facts)
}

// fromVector reads the question of a golden case.
func fromVector(v *vectors.Vector) (*question, error) {
	var source contract.Request
	if err := json.Unmarshal(v.Request, &source); err != nil {
		return nil, fmt.Errorf("decoding the request of vector %s: %w", v.Name, err)
	}
	facts, err := decodeObject(source.Facts)
	if err != nil {
		return nil, fmt.Errorf("decoding the facts of vector %s: %w", v.Name, err)
	}
	if len(v.Object) > 0 {
		if facts[memberObject], err = decodeObject(v.Object); err != nil {
			return nil, fmt.Errorf("decoding the object of vector %s: %w", v.Name, err)
		}
	}
	if len(source.Settings) > 0 {
		// As the host sends them: the keys of objects are sorted.
		settings, err := jsonvalue.Decode(source.Settings)
		if err != nil {
			return nil, fmt.Errorf("decoding the settings of vector %s: %w", v.Name, err)
		}
		if source.Settings, err = json.Marshal(settings); err != nil {
			return nil, fmt.Errorf("encoding the settings of vector %s: %w", v.Name, err)
		}
	}
	return &question{name: v.Name, point: source.Point, moment: source.Moment, settings: source.Settings, facts: facts, future: v.Future}, nil
}

func decodeObject(data []byte) (map[string]any, error) {
	value, err := jsonvalue.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("decoding an object: %w", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	return object, nil
}

// collectSettings keeps the settings with which the module's vectors have an answer.
func (r *run) collectSettings() error {
	for i := range r.options.Vectors {
		v := &r.options.Vectors[i]
		q, err := fromVector(v)
		if err != nil {
			return err
		}
		if v.Error == "" && len(q.settings) > 0 {
			r.settings = append(r.settings, pointSettings{q.point, q.settings})
		}
	}
	return nil
}

// pointSettings are settings for a point.
type pointSettings struct {
	point    contract.Point
	settings json.RawMessage
}

// settingsOf returns the n-th settings that suit a point; nothing if there are none.
func (r *run) settingsOf(point contract.Point, n int) json.RawMessage {
	var suited []json.RawMessage
	for _, s := range r.settings {
		if s.point == point {
			suited = append(suited, s.settings)
		}
	}
	if len(suited) == 0 {
		return nil
	}
	return suited[n%len(suited)]
}

// momentsOf lists the moments at which a point is asked.
func momentsOf(declared *contract.PointManifest) []contract.Moment {
	switch {
	case declared.Point != contract.PodMutation:
		return []contract.Moment{""}
	case len(declared.Moments) > 0:
		return declared.Moments
	default:
		return []contract.Moment{contract.MomentAdmission, contract.MomentOffload}
	}
}

// questions returns those of the module's vectors, the golden ones and generated ones.
func (r *run) questions(declared *contract.PointManifest) ([]*question, error) {
	all, err := r.vectorQuestions(declared)
	if err != nil {
		return nil, err
	}
	for _, moment := range momentsOf(declared) {
		for i, facts := range generated(declared.Point, moment) {
			all = append(all, &question{
				name: fmt.Sprintf("generated %s%d", label(moment), i), point: declared.Point, moment: moment,
				settings: r.settingsOf(declared.Point, i), facts: facts,
			})
		}
	}
	return all, nil
}

// vectorQuestions returns the questions of the module's vectors and the golden ones.
func (r *run) vectorQuestions(declared *contract.PointManifest) ([]*question, error) {
	golden, err := vectors.Every()
	if err != nil {
		return nil, fmt.Errorf("reading the golden vectors: %w", err)
	}
	moments := momentsOf(declared)
	var all []*question
	own := len(r.options.Vectors)
	for i, v := range slices.Concat(r.options.Vectors, golden) {
		q, err := fromVector(&v)
		if err != nil {
			return nil, err
		}
		if q.point != declared.Point {
			continue
		}
		if i >= own {
			q.settings = r.settingsOf(q.point, i) // those of the vector are for another module
		}
		if !slices.Contains(moments, q.moment) {
			q.moment = moments[0]
		}
		// A vector has what its policy reads; the host has all facts of the point.
		for name, fact := range promised(q.point, q.moment) {
			if _, has := q.facts[name]; !has {
				q.facts[name] = fact
			}
		}
		all = append(all, q)
	}
	return all, nil
}

// label names a moment in the name of a question.
func label(moment contract.Moment) string {
	if moment == "" {
		return ""
	}
	return string(moment) + " "
}
