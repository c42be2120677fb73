"""What a FederatedHPA makes of samples, when the rules of a CronFederatedHPA are due, and what they make of its target.

Layers: `scaling_conditions` `gauge_rows` `metric_specs` `timestamps` `cron_schedule` and `cron_rules` below,
`pod_readings`, `scaling_limits` and `autoscaler_status` above, `metric_proposals`, then `evaluation`. Values of metrics
are whole thousandths, times seconds since 1970.
"""
