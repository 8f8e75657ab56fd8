module github.com/longshore-dev/longshore/plugins

go 1.26.0

require github.com/longshore-dev/longshore/sdk v0.1.0

replace github.com/longshore-dev/longshore/sdk => ../sdk
