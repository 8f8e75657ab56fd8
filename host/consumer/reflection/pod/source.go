package pod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/kit/version"
)

// hashSource hashes everything that labels and annotations are built from, for this process.
func (d *Definition) hashSource(o observation) uint64 {
	return hashLocal(o) ^ (o.in.Facts.PolicyRevision+1)*0x9e3779b97f4a7c15
}

// hashLocal hashes what labels and annotations are built from in the local pod. The label of row 8, which
// this process sets after it has asked the policies, is none of it.
func hashLocal(o observation) uint64 {
	return hashEntries(o.local.Labels, o.local.Annotations, func(key string) bool {
		return key == offloadingv1beta1.LocalPodLabel || isIgnoredKey(key)
	})
}

// source identifies what labels and annotations are built from, in each process. It is "" if the policies
// are not known: they are asked then.
func (d *Definition) source(o observation) string {
	if d.options.Policies == nil {
		return ""
	}
	policies := d.options.Policies()
	if policies == "" {
		return ""
	}
	patch, node := d.options.VirtualNode()
	facts, err := json.Marshal([]any{patch, node})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %s %s %x", version.Version(), policies, o.in.Facts.RemoteNamespace, o.local.UID, facts, hashLocal(o)))
	return hex.EncodeToString(sum[:8])
}

// sourceText is the value of podupdate.MetadataAnnotation.
func sourceText(source string, metadataHash uint64) string {
	return fmt.Sprintf("%s.%016x", source, metadataHash)
}

// isAsRecorded reports whether the ShadowPod has the labels and annotations that the policies would answer,
// by what an earlier process recorded.
func (d *Definition) isAsRecorded(o observation) bool {
	recorded, ok := o.shadow.Annotations[podupdate.MetadataAnnotation]
	if !ok {
		return false
	}
	source := d.source(o)
	return source != "" && recorded == sourceText(source, hashMetadata(o.shadow.Labels, o.shadow.Annotations))
}

// textToRecord returns the value of podupdate.MetadataAnnotation for an answer of the policies, "" for none.
// asked is the source before they were asked: they may have changed meanwhile. Nothing is recorded if one was
// skipped because it fails, so that the next process asks it.
func (d *Definition) textToRecord(o observation, asked string, desired *desiredShadowPod) string {
	if asked == "" || desired.warning != "" || d.source(o) != asked {
		return ""
	}
	return sourceText(asked, hashMetadata(desired.shadow.Labels, desired.shadow.Annotations))
}
