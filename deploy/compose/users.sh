#!/bin/sh
# Run once by the image of Postgres, on an empty database: the users of the two programs, without any right yet.
set -eu
password() { cat "/run/secrets/$1_password"; }
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set data="$(password data)" --set control="$(password control)" <<'SQL'
CREATE ROLE gateway_data_user LOGIN PASSWORD :'data';
CREATE ROLE gateway_control_user LOGIN PASSWORD :'control';
SQL
