package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Keys on a remote Secret that holds the tokens of one pod. TokenAccountKey is a
// label, or an annotation if the name is not a label value; the others are annotations.
const (
	TokenAccountKey    = "offloading.liqo.io/service-account-name"
	TokenPodKey        = "offloading.liqo.io/service-account-for-pod-name"
	TokenPodUIDKey     = "offloading.liqo.io/service-account-for-pod-uid"
	TokenExpirationKey = "offloading.liqo.io/service-account-expiration"
	// TokenIssuedKey is Longshore's own: when the tokens were requested. The API server may grant
	// a shorter lifetime than was requested.
	TokenIssuedKey = "longshore.dev/token-issued"
)

const (
	tokenSecretSuffix = "-token"
	maxSecretName     = validation.DNS1123SubdomainMaxLength
	// nameHashLength is the number of hex digits in the name of a Secret.
	nameHashLength = 16
	// tokenHashLength is the number of hex digits of a path's hash in a key of the Secret.
	tokenHashLength = 6
	// defaultTokenSeconds is the lifetime of tokens that name none.
	defaultTokenSeconds = 3600
	// extendedTokenSeconds is the lifetime for which API servers give tokens of a year, so that
	// clients that do not reload them work. Remote pods get tokens of an hour instead.
	extendedTokenSeconds = 3607
)

// PodToken is a token that a pod projects into a volume.
type PodToken struct {
	// Key is the key of the token in the remote Secret.
	Key string
	// Audience is empty for the API server's own.
	Audience string
	// Seconds is the lifetime.
	Seconds int64
}

// PodTokens returns the tokens that the remote pod of a local pod needs, and the name of the
// service account. There are none unless it reaches the consumer's API server, or the origin sends those
// for other audiences.
func PodTokens(pod *corev1.Pod, origin Origin) (tokens []PodToken, account string) {
	for volume, token := range projectedTokens(pod) {
		if !sendsToken(token, pod, origin) {
			continue
		}
		seconds := int64(defaultTokenSeconds)
		if token.ExpirationSeconds != nil && *token.ExpirationSeconds != extendedTokenSeconds {
			seconds = *token.ExpirationSeconds
		}
		tokens = append(tokens, PodToken{Key: tokenKey(volume, token.Path), Audience: token.Audience, Seconds: seconds})
	}
	if len(tokens) == 0 {
		return nil, ""
	}
	return tokens, serviceAccountOf(pod)
}

// LeftOutToken is a token for another audience than the API server that a remote pod does not get.
type LeftOutToken struct{ Volume, Audience string }

// String implements fmt.Stringer.
func (t LeftOutToken) String() string {
	return fmt.Sprintf("volume %q has no token for audience %q", t.Volume, t.Audience)
}

// TokensLeftOut returns the tokens for other audiences that the remote pod does not get. Those for the API
// server are of no use where the pod does not reach it.
func TokensLeftOut(pod *corev1.Pod, origin Origin) []LeftOutToken {
	if accessOf(pod, origin) != accessDisabled {
		return nil
	}
	var left []LeftOutToken
	for volume, token := range projectedTokens(pod) {
		if token.Audience != "" && !sendsToken(token, pod, origin) {
			left = append(left, LeftOutToken{volume, token.Audience})
		}
	}
	return left
}

// sendsToken reports whether a token of a local pod is sent with it.
func sendsToken(token *corev1.ServiceAccountTokenProjection, pod *corev1.Pod, origin Origin) bool {
	switch accessOf(pod, origin) {
	case accessHome:
		return true
	case accessDisabled:
		return origin.AudienceTokens && token.Audience != "" && pod.Annotations[offloadingv1beta1.APIServerSupportAnnotation] != supportDisabled
	default:
		return false
	}
}

// projectedTokens iterates over the tokens of a pod, with the names of their volumes.
func projectedTokens(pod *corev1.Pod) iter.Seq2[string, *corev1.ServiceAccountTokenProjection] {
	return func(yield func(string, *corev1.ServiceAccountTokenProjection) bool) {
		for i := range pod.Spec.Volumes {
			volume := &pod.Spec.Volumes[i]
			if volume.Projected == nil {
				continue
			}
			for j := range volume.Projected.Sources {
				if token := volume.Projected.Sources[j].ServiceAccountToken; token != nil && !yield(volume.Name, token) {
					return
				}
			}
		}
	}
}

// TokenSecretName returns the name of the remote Secret with the tokens of a pod. The end of a name that would
// be too long is replaced by a hash.
func TokenSecretName(pod string) string {
	if len(pod)+len(tokenSecretSuffix) <= maxSecretName {
		return pod + tokenSecretSuffix
	}
	sum := sha256.Sum256([]byte(pod))
	hash := hex.EncodeToString(sum[:])[:nameHashLength]
	kept := maxSecretName - len(tokenSecretSuffix) - nameHashLength - 2
	// An x, because a part of a name must end with a letter or a digit.
	return pod[:kept] + "x-" + hash + tokenSecretSuffix
}

// TokenSecretPod is the inverse of [TokenSecretName]; "" for other names. object returns the Secret, whose
// annotation has the name of the pod: it is called for names that may have a hash.
func TokenSecretPod(secret string, object func() metav1.Object) string {
	if len(secret) == maxSecretName {
		if found := object(); found != nil && found.GetAnnotations()[TokenPodKey] != "" {
			return found.GetAnnotations()[TokenPodKey]
		}
	}
	n := len(secret) - len(tokenSecretSuffix)
	if n <= 0 || secret[n:] != tokenSecretSuffix {
		return ""
	}
	return secret[:n]
}

// tokenKey returns the key of a token. Two consumers of the wire must agree on it.
func tokenKey(volume, path string) string {
	sum := sha256.Sum256([]byte(path))
	return volume + "-" + hex.EncodeToString(sum[:])[:tokenHashLength]
}

// TokenSecret builds the remote Secret with the tokens of a pod, which were issued at one time.
// expiration is the earliest of all tokens.
func TokenSecret(pod *corev1.Pod, namespace string, tokens map[string][]byte, issued, expiration time.Time, origin Origin) *applycorev1.SecretApplyConfiguration {
	account := serviceAccountOf(pod)
	labels := map[string]string{offloadingv1beta1.NodeNameLabel: origin.NodeName}
	annotations := map[string]string{
		TokenPodKey: pod.Name, TokenPodUIDKey: string(pod.UID),
		TokenIssuedKey: issued.UTC().Format(time.RFC3339), TokenExpirationKey: expiration.UTC().Format(time.RFC3339),
	}
	data := map[string][]byte{namespaceKey: []byte(pod.Namespace)}
	maps.Copy(data, tokens)
	if len(validation.IsValidLabelValue(account)) == 0 {
		labels[TokenAccountKey] = account
	} else {
		annotations[TokenAccountKey] = account
	}
	return applycorev1.Secret(TokenSecretName(pod.Name), namespace).
		WithLabels(ownedLabels(labels, origin)).WithAnnotations(annotations).
		WithType(corev1.SecretTypeOpaque).WithImmutable(false).WithData(data)
}
