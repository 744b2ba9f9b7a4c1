"""The sample campaign, made by `crowdassay simulate --seed 20 --output sample_data`."""
