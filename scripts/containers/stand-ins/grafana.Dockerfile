ARG NODE
FROM $NODE
# As in the official one: the user 472, and folders that it may write to.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends wget >/dev/null && rm -rf /var/lib/apt/lists/* && \
    mkdir -m 777 -p /var/lib/grafana
COPY grafana.mjs /
USER 472
ENTRYPOINT ["node", "/grafana.mjs"]
