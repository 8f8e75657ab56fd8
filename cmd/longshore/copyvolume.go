package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/host/kit/volumecopy"
)

// copyVolumeCommand is what longshorectl move volume runs in pods: one reads a volume, another
// one writes one.
func copyVolumeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "copy-volume", Short: "Read or write a volume for longshorectl move volume", Args: cobra.NoArgs}
	dir := cmd.PersistentFlags().String("dir", "/volume", "folder of the volume")
	verb := func(use, short string, do func(cmd *cobra.Command) error) {
		cmd.AddCommand(&cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return do(cmd) }})
	}
	verb("wait", "Wait until the process is ended, so that the pod keeps the volume", func(cmd *cobra.Command) error {
		<-cmd.Context().Done()
		return nil
	})
	verb("list", "Print the files of the volume", func(cmd *cobra.Command) error {
		return volumecopy.List(*dir, cmd.OutOrStdout())
	})
	verb("send", "Write the volume as a stream; the list on the standard input names what the receiver has", func(cmd *cobra.Command) error {
		return volumecopy.Send(*dir, cmd.InOrStdin(), cmd.OutOrStdout())
	})
	verb("receive", "Make the volume equal to the stream on the standard input", func(cmd *cobra.Command) error {
		return volumecopy.Receive(*dir, cmd.InOrStdin())
	})
	verb("sum", "Print the checksum of the volume", func(cmd *cobra.Command) error {
		summary, err := volumecopy.Sum(*dir)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(cmd.OutOrStdout()).Encode(summary); err != nil {
			return fmt.Errorf("writing the checksum: %w", err)
		}
		return nil
	})
	return cmd
}
