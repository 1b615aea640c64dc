-- Each program's user gets the rights of its role and nothing else; the roles come from `gateway-control migrate`.
GRANT gateway_data TO gateway_data_user;
GRANT gateway_control TO gateway_control_user;
