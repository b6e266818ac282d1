let () = Ssl.init ()

let context (place : Sapwood.Place.t) =
  if Uri.scheme (Uri.of_string place.uri) <> Some "https" then None
  else begin
    (* Whatever version both have; the system's OpenSSL says which are too old. *)
    let context = Ssl.create_context Ssl.SSLv23 Ssl.Client_context in
    (match place.ca with
    | Some file -> Ssl.load_verify_locations context file ""
    | None -> if not (Ssl.set_default_verify_paths context) then failwith "this system knows no authorities");
    Option.iter (fun (chain, key) -> Ssl.use_certificate context chain key) place.certificate;
    Ssl.set_verify context [ Ssl.Verify_peer ] None;
    Some context
  end

let expect socket host =
  match Unix.inet_addr_of_string host with
  | _ -> Ssl.set_ip socket host
  | exception Failure _ ->
      Ssl.set_hostflags socket [ Ssl.No_partial_wildcards ];
      Ssl.set_host socket host;
      Ssl.set_client_SNI_hostname socket host
