// What the policy "accelerator" says.

export const manifest =
  '{"name":"accelerator","version":"1.0.0","contracts":["v1alpha1"],"points":[{"point":"PodMutation",' +
  '"moments":["Admission"],"reads":["/object/spec/nodeSelector"],' +
  '"writes":[{"path":"/spec/tolerations","verbs":["ensure"]}]}]}';
export const nothing = '{"version":"v1alpha1"}';
export const before =
  '{"version":"v1alpha1","operations":[{"op":"ensure","path":"/spec/tolerations",' +
  '"value":[{"key":"accelerator","operator":"Equal","value":';
export const after = ',"effect":"NoSchedule"}]}]}';
export const notJSON = "the request is not JSON";
export const notAString = "spec.nodeSelector.accelerator is not a string";
